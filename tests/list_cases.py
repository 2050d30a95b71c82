"""Small files of data sets and challenges, written by hand from their public descriptions."""

from __future__ import annotations

import json

VINDR = """image_id,rad_id,class_name,x_min,y_min,x_max,y_max
a1,R9,Cardiomegaly,691,1375,1653,1831
a1,R10,Cardiomegaly,700,1380,1650,1830
a1,R8,No finding,,,,
b2,R9,No finding,,,,
b2,R10,No finding,,,,
c3,R8,Nodule/Mass,100.5,200,180,300
"""
# The table of the test set has no readers.
VINDR_TEST = """image_id,class_name,x_min,y_min,x_max,y_max
a1,Cardiomegaly,691,1375,1653,1831
b2,No finding,,,,
c3,Nodule/Mass,100.5,200,180,300
"""
VINDR_SUBMISSION = """image_id,PredictionString
a1,3 0.9 690 1370 1650 1830 8 0.2 1 2 30 40
b2,14 1 0 0 1 1
c3,8 0.7 100 200 180 300
"""
RSNA = """patientId,x,y,width,height,Target
0004cfab,,,,,0
00436515,264.0,152.0,213.0,379.0,1
00436515,562.0,152.0,256.0,453.0,1
"""
RSNA_SUBMISSION = """patientId,PredictionString
0004cfab,
00436515,0.9 264 152 213 379 0.3 560 150 250 450
"""
OPENIMAGES = """ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,\
IsGroupOf,IsDepiction,IsInside
000026e7ee790996,freeform,/m/07j7r,1,0.1,0.5,0.25,0.75,0,1,1,0,0
000026e7ee790996,freeform,/m/07j7r,1,0.2,0.4,0.5,1,0,1,0,0,0
000062a39995e348,freeform,/m/015p6,1,0,1,0,0.5,0,0,-1,0,0
"""
OPENIMAGES_SIZES = "image,width,height\n000026e7ee790996,200,100\n000062a39995e348,400,300\n"
OPENIMAGES_SUBMISSION = """ImageId,PredictionString
000026e7ee790996,/m/07j7r 0.8 0.2 0.5 0.4 1 /m/015p6 0.1 0 0 1 1
000062a39995e348,
"""
OPENIMAGES_SCORES = """ImageID,LabelName,Score,XMin,XMax,YMin,YMax
000062a39995e348,/m/015p6,0.75,0,1,0,0.5
"""
LUNA16 = """seriesuid,coordX,coordY,coordZ,diameter_mm
1.3.6.1,-128.5,-175.25,-298.5,5.5
1.3.6.1,103.75,-211.5,-227.25,4.25
1.3.6.2,69.5,-140.75,876.25,6
"""
LUNA16_EXCLUDED = """seriesuid,coordX,coordY,coordZ,diameter_mm
1.3.6.1,-24.5,-180.25,-160.5,-1
1.3.6.3,10,20,30,12
"""
LUNA16_SCANS = "1.3.6.1\n1.3.6.2\n1.3.6.3\n1.3.6.4\n"
LUNA16_CANDIDATES = """seriesuid,coordX,coordY,coordZ,probability
1.3.6.1,-128,-175,-298,0.9
1.3.6.1,-24,-180,-160,0.8
1.3.6.4,0,0,0,0.7
1.3.6.2,69.5,-140,876,0.6
"""
DEEPLESION = """File_name,Patient_index,Study_index,Series_ID,Key_slice_index,\
Measurement_coordinates,Bounding_boxes,Lesion_diameters_Pixel_,Normalized_lesion_location,\
Coarse_lesion_type,Possibly_noisy,Slice_range,Spacing_mm_px_,Image_size,DICOM_windows,\
Patient_gender,Patient_age,Train_Val_Test
000001_01_01_109.png,1,1,1,109,"233.5, 95.0, 234.5, 106.9","226.25, 90.0, 241.25, 112.0",\
"12, 5","0.4, 0.1, 0.5",3,0,"103, 115","0.5, 0.5, 5","512, 512","-175, 275",F,62,3
000001_01_01_109.png,1,1,1,109,"1, 2, 3, 4","10, 20, 30, 60","12, 5","0.4, 0.1, 0.5",-1,1,\
"103, 115","0.5, 0.5, 5","512, 512","-175, 275",F,62,3
000002_01_01_162.png,2,1,1,162,"1, 2, 3, 4","10, 20, 30, 60","12, 5","0.4, 0.1, 0.5",5,0,\
"103, 115","0.75, 0.75, 1","512, 512","-175, 275",M,50,1
"""
NODE21 = """height,img_name,label,width,x,y
24,0.mha,1,30,120,200
0,1.mha,0,0,0,0
50,0.mha,1,40,500,600
"""


def corners(x0: float, y0: float, x1: float, y1: float, z: float) -> list[list[float]]:
    return [[x1, y1, z], [x0, y1, z], [x0, y0, z], [x1, y0, z]]


BOXES = {
    "type": "Multiple 2D bounding boxes",
    "boxes": [
        {"corners": corners(120, 200, 150, 224, 0), "probability": 0.9},
        {"corners": corners(5, 5, 15, 15, 1), "probability": 0.25},
    ],
    "version": {"major": 1, "minor": 0},
}
NODULES = json.dumps(BOXES)


def job(image: str, *boxes: object, **others: object) -> dict[str, object]:
    """A job of grand-challenge.org that found boxes on one image."""
    value = {**BOXES, "boxes": list(boxes)}
    return {
        "pk": image,
        "status": "Succeeded",
        "inputs": [{"image": {"name": image}, "interface": {"slug": "generic-image"}}],
        "outputs": [{"value": value, "interface": {"slug": "nodules"}}],
        **others,
    }


JOBS = json.dumps([job("0.mha", BOXES["boxes"][0]), job("1.mha")])
# 1024 columns of 1024 pixels: one run of 3 pixels in the first column, one of 2 in the second.
SIIM = """ImageId, EncodedPixels
1.2.276.0.7230010.3.1,10 3 1019 2
1.2.276.0.7230010.3.2, -1
1.2.276.0.7230010.3.1,1048570 6
"""
