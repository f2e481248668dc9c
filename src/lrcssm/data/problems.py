"""The problems of the archive by name.

UEA: Bagnall et al., "The UEA multivariate time series classification archive, 2018". UCR: Dau et al., "The UCR time series
archive", 2019. Regression: Tan et al., "Monash University, UEA, UCR time series extrinsic regression archive", 2020.
"""

import difflib
from collections.abc import Iterable
from typing import NamedTuple


class Size(NamedTuple):
    """Size of a data set of the archive; cases are those for training and test together."""

    cases: int
    length: int
    channels: int
    classes: int


# Series of JapaneseVowels, SpokenArabicDigits, CharacterTrajectories and InsectWingbeat differ in length: the longest.
MULTIVARIATE = {
    "ArticularyWordRecognition": Size(575, 144, 9, 25),
    "AtrialFibrillation": Size(30, 640, 2, 3),
    "BasicMotions": Size(80, 100, 6, 4),
    "CharacterTrajectories": Size(2858, 182, 3, 20),
    "Cricket": Size(180, 1197, 6, 12),
    "DuckDuckGeese": Size(100, 270, 1345, 5),
    "EigenWorms": Size(259, 17984, 6, 5),
    "Epilepsy": Size(275, 206, 3, 4),
    "ERing": Size(300, 65, 4, 6),
    "EthanolConcentration": Size(524, 1751, 3, 4),
    "FaceDetection": Size(9414, 62, 144, 2),
    "FingerMovements": Size(416, 50, 28, 2),
    "HandMovementDirection": Size(234, 400, 10, 4),
    "Handwriting": Size(1000, 152, 3, 26),
    "Heartbeat": Size(409, 405, 61, 2),
    "InsectWingbeat": Size(50000, 22, 200, 10),
    "JapaneseVowels": Size(640, 29, 12, 9),
    "Libras": Size(360, 45, 2, 15),
    "LSST": Size(4925, 36, 6, 14),
    "MotorImagery": Size(378, 3000, 64, 2),
    "NATOPS": Size(360, 51, 24, 6),
    "PEMS-SF": Size(440, 144, 963, 7),
    "PenDigits": Size(10992, 8, 2, 10),
    "PhonemeSpectra": Size(6668, 217, 11, 39),
    "RacketSports": Size(303, 30, 6, 4),
    "SelfRegulationSCP1": Size(561, 896, 6, 2),
    "SelfRegulationSCP2": Size(380, 1152, 7, 2),
    "SpokenArabicDigits": Size(8798, 93, 13, 10),
    "StandWalkJump": Size(27, 2500, 4, 3),
    "UWaveGestureLibrary": Size(440, 315, 3, 8),
}
"""The 30 multivariate problems of 2018."""

_UNIVARIATE = """
ACSF1 Adiac AllGestureWiimoteX AllGestureWiimoteY AllGestureWiimoteZ ArrowHead BME Beef BeetleFly BirdChicken CBF
Car Chinatown ChlorineConcentration CinCECGTorso Coffee Computers CricketX CricketY CricketZ Crop DiatomSizeReduction
DistalPhalanxOutlineAgeGroup DistalPhalanxOutlineCorrect DistalPhalanxTW DodgerLoopDay DodgerLoopGame
DodgerLoopWeekend ECG200 ECG5000 ECGFiveDays EOGHorizontalSignal EOGVerticalSignal Earthquakes ElectricDevices
EthanolLevel FaceAll FaceFour FacesUCR FiftyWords Fish FordA FordB FreezerRegularTrain FreezerSmallTrain Fungi
GestureMidAirD1 GestureMidAirD2 GestureMidAirD3 GesturePebbleZ1 GesturePebbleZ2 GunPoint GunPointAgeSpan
GunPointMaleVersusFemale GunPointOldVersusYoung Ham HandOutlines Haptics Herring HouseTwenty InlineSkate
InsectEPGRegularTrain InsectEPGSmallTrain InsectWingbeatSound ItalyPowerDemand LargeKitchenAppliances Lightning2
Lightning7 Mallat Meat MedicalImages MelbournePedestrian MiddlePhalanxOutlineAgeGroup MiddlePhalanxOutlineCorrect
MiddlePhalanxTW MixedShapesRegularTrain MixedShapesSmallTrain MoteStrain NonInvasiveFetalECGThorax1
NonInvasiveFetalECGThorax2 OSULeaf OliveOil PLAID PhalangesOutlinesCorrect Phoneme PickupGestureWiimoteZ
PigAirwayPressure PigArtPressure PigCVP Plane PowerCons ProximalPhalanxOutlineAgeGroup ProximalPhalanxOutlineCorrect
ProximalPhalanxTW RefrigerationDevices Rock ScreenType SemgHandGenderCh2 SemgHandMovementCh2 SemgHandSubjectCh2
ShakeGestureWiimoteZ ShapeletSim ShapesAll SmallKitchenAppliances SmoothSubspace SonyAIBORobotSurface1
SonyAIBORobotSurface2 StarLightCurves Strawberry SwedishLeaf Symbols SyntheticControl ToeSegmentation1
ToeSegmentation2 Trace TwoLeadECG TwoPatterns UMD UWaveGestureLibraryAll UWaveGestureLibraryX UWaveGestureLibraryY
UWaveGestureLibraryZ Wafer Wine WordSynonyms Worms WormsTwoClass Yoga
"""
UNIVARIATE = tuple(_UNIVARIATE.split())
"""The 128 univariate problems of 2018."""

_REGRESSION = """
AppliancesEnergy AustraliaRainfall BIDMC32HR BIDMC32RR BIDMC32SpO2 BeijingPM10Quality BeijingPM25Quality
BenzeneConcentration Covid3Month FloodModeling1 FloodModeling2 FloodModeling3 HouseholdPowerConsumption1
HouseholdPowerConsumption2 IEEEPPG LiveFuelMoistureContent NewsHeadlineSentiment NewsTitleSentiment
PPGDalia
"""
REGRESSION = tuple(_REGRESSION.split())
"""The 19 regression problems of 2020."""

NAMES = (*MULTIVARIATE, *UNIVARIATE, *REGRESSION)


def close(name: str, names: Iterable[str]) -> str:
    """Suggest similar names for one that does not exist; empty if there are none."""
    lower = {one.lower(): one for one in names}
    found = difflib.get_close_matches(name.lower(), lower, n=3, cutoff=0.6)
    return f"; perhaps you meant {' or '.join(lower[one] for one in found)}" if found else ""
